# DMA_OPTION(name, help)
#
# --with-NAME[=DIR]: sets dma_want to no, check (the option was not given) or yes (it was), and dma_dir to DIR or nothing.
AC_DEFUN([DMA_OPTION], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [$2])], [], [with_$1=check])
AS_CASE([$with_$1],
  [no|yes|check], [dma_want=$with_$1 dma_dir=],
  [dma_want=yes dma_dir=$with_$1])
])

# DMA_OPTION_DONE(name, what, found, with, without)
#
# Fails if something that was asked for by name is missing. Otherwise summary_NAME says what was found, and what follows:
# `with` if it was found, `without` if not.
AC_DEFUN([DMA_OPTION_DONE], [
AC_MSG_CHECKING([for $2])
AS_CASE([$dma_want,$3],
  [no,*], [summary_$1="not looked for"],
  [yes,], [AC_MSG_RESULT([no])
    AC_MSG_ERROR([--with-$1 was given, but $2 was not found; see config.log])],
  [check,], [summary_$1="not found; $5"],
  [summary_$1="$3 found; $4"])
AC_MSG_RESULT([$summary_$1])
])

# DMA_CHECK_HEADER_IN(dir, header, prologue, if-found)
#
# If a directory is given, the header must be in it. A header of another installation that the compiler knows does not count.
AC_DEFUN([DMA_CHECK_HEADER_IN], [
dma_save_CPPFLAGS=$CPPFLAGS
AS_IF([test -z "$1"], [AC_CHECK_HEADER([$2], [$4], [], [$3])],
  [test -f "$1/include/$2"],
    [CPPFLAGS="$CPPFLAGS -I$1/include"
     AC_CHECK_HEADER([$2], [$4], [], [$3])])
CPPFLAGS=$dma_save_CPPFLAGS
])

# DMA_CHECK_OPTIONAL
#
# Software that coll/dma can use. UCX is used where it is found. The engines for AMD and NVIDIA GPUs are always built: they
# declare what they call, and find the runtime that an application has loaded with dlopen. The build does not use the headers
# of ROCm and CUDA, so what is found is only reported. (./check headers compares our declarations with them.) If an option
# asks for one by name, it must be there.
AC_DEFUN([DMA_CHECK_OPTIONAL], [
DMA_CHECK_UCX

DMA_OPTION([sdt], [static probes, with the sys/sdt.h there @<:@where it is found@:>@])
dma_found=
AS_IF([test $dma_want != no],
  [DMA_CHECK_HEADER_IN([$dma_dir], [sys/sdt.h], [], [dma_found="sys/sdt.h"])])
DMA_OPTION_DONE([sdt], [sys/sdt.h], [$dma_found], [docs/user/trace.md lists them], [no static probes (Debian: apt-get install systemtap-sdt-dev)])
AS_IF([test -n "$dma_found"],
  [DMA_DEFINES="$DMA_DEFINES -DDMA_HAVE_SDT=1"
   AS_IF([test -n "$dma_dir"], [DMA_DEFINES="$DMA_DEFINES -I$dma_dir/include"])])

DMA_OPTION([rocm], [fail if the headers of ROCm are missing (the build does not need them)])
dma_found=
AS_IF([test $dma_want != no],
  [AS_IF([test -z "$dma_dir" && test -d /opt/rocm], [dma_dir=/opt/rocm])
   DMA_CHECK_HEADER_IN([$dma_dir], [hip/hip_runtime_api.h], [@%:@define __HIP_PLATFORM_AMD__ 1],
    [DMA_CHECK_HEADER_IN([$dma_dir], [hsa/hsa.h], [], [dma_found="ROCm"])])])
DMA_OPTION_DONE([rocm], [ROCm], [$dma_found], [used by ./check headers only], [not needed: the GPU engines load the runtime of the application])

DMA_OPTION([cuda], [fail if the headers of CUDA are missing (the build does not need them)])
dma_found=
AS_IF([test $dma_want != no],
  [AS_IF([test -z "$dma_dir" && test -d /usr/local/cuda], [dma_dir=/usr/local/cuda])
   DMA_CHECK_HEADER_IN([$dma_dir], [cuda.h], [], [dma_found="CUDA"])])
DMA_OPTION_DONE([cuda], [CUDA], [$dma_found], [used by ./check headers only], [not needed: the GPU engines load the runtime of the application])
])
