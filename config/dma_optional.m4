# DMA_OPTION(name, help)
#
# --with-NAME[=DIR]: sets dma_want to no, check (nothing said) or yes (asked for), and dma_dir to DIR or nothing.
AC_DEFUN([DMA_OPTION], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1@<:@=DIR@:>@], [$2])], [], [with_$1=check])
AS_CASE([$with_$1],
  [no|yes|check], [dma_want=$with_$1 dma_dir=],
  [dma_want=yes dma_dir=$with_$1])
])

# DMA_OPTION_DONE(name, what, found, later)
#
# Fails if what was asked for is missing; else says in summary_NAME what was found and what is built with it.
AC_DEFUN([DMA_OPTION_DONE], [
AC_MSG_CHECKING([for $2])
AS_CASE([$dma_want,$3],
  [no,*], [summary_$1="not looked for"],
  [yes,], [AC_MSG_RESULT([no])
    AC_MSG_ERROR([--with-$1 was given, but $2 was not found; see config.log])],
  [check,], [summary_$1="not found; $4"],
  [summary_$1="$3 found; $4"])
AC_MSG_RESULT([$summary_$1])
])

# DMA_CHECK_HEADER_IN(dir, header, prologue, if-found)
#
# With a directory, the header must be in it: one of another installation that the compiler knows does not count.
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
# The parts of coll/dma that need something of others. UCX is used where it is found. Of the rest, which this version does
# not build, what is found is reported, so that nobody takes it for used. What is asked for by name must be there.
AC_DEFUN([DMA_CHECK_OPTIONAL], [
DMA_CHECK_UCX

DMA_OPTION([rocm], [look for ROCm (HIP and ROCr), for AMD GPUs])
dma_found=
AS_IF([test $dma_want != no],
  [AS_IF([test -z "$dma_dir" && test -d /opt/rocm], [dma_dir=/opt/rocm])
   DMA_CHECK_HEADER_IN([$dma_dir], [hip/hip_runtime_api.h], [@%:@define __HIP_PLATFORM_AMD__ 1],
    [DMA_CHECK_HEADER_IN([$dma_dir], [hsa/hsa.h], [], [dma_found="ROCm"])])])
DMA_OPTION_DONE([rocm], [ROCm], [$dma_found], [whose headers check our declarations; what applications load is found at run time])

DMA_OPTION([cuda], [look for CUDA, for NVIDIA GPUs])
dma_found=
AS_IF([test $dma_want != no],
  [AS_IF([test -z "$dma_dir" && test -d /usr/local/cuda], [dma_dir=/usr/local/cuda])
   DMA_CHECK_HEADER_IN([$dma_dir], [cuda.h], [], [dma_found="CUDA"])])
DMA_OPTION_DONE([cuda], [CUDA], [$dma_found], [whose headers check our declarations; what applications load is found at run time])
])
