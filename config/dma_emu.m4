# DMA_CHECK_EMU
#
# The emulated GPU node of the tests: a library that replaces ROCm's thunk, below the real runtimes. It needs the headers of
# the runtimes, and HIP itself for the programs of the tests. Sets HAVE_EMU, EMU_MISSING (what to print instead), EMU_COMGR
# (the compiler library that HIP loads, whose results are kept) and EMU_ROCR (the runtime below HIP, which can be made to
# look newer).
AC_DEFUN([DMA_CHECK_EMU], [
EMU_MISSING=
AC_CHECK_HEADER([hsakmt.h], [], [EMU_MISSING="hsakmt.h was not found (Debian: apt-get install libhsakmt-dev)"])
AS_IF([test -z "$EMU_MISSING"],
  [AC_CHECK_HEADER([hsa/amd_hsa_signal.h], [],
    [EMU_MISSING="hsa/amd_hsa_signal.h was not found (Debian: apt-get install libhsa-runtime-dev)"],
    [@%:@include <hsa/hsa.h>])])
AS_IF([test -z "$EMU_MISSING"],
  [AC_CHECK_HEADER([hip/hip_runtime_api.h], [],
    [EMU_MISSING="hip/hip_runtime_api.h was not found (Debian: apt-get install libamdhip64-dev)"],
    [@%:@define __HIP_PLATFORM_AMD__ 1])])
AS_IF([test -z "$EMU_MISSING"],
  [AC_CHECK_HEADER([amd_comgr.h], [],
    [EMU_MISSING="amd_comgr.h was not found (Debian: apt-get install libamd-comgr-dev)"], [])])
AS_IF([test -z "$EMU_MISSING"],
  [AC_MSG_CHECKING([for libamd_comgr.so.2])
   EMU_COMGR=`$CC -print-file-name=libamd_comgr.so.2`
   AS_CASE([$EMU_COMGR], [/*], [EMU_COMGR=`readlink -f "$EMU_COMGR"`],
     [EMU_MISSING="libamd_comgr.so.2 was not found (Debian: apt-get install libamd-comgr2)"])
   AC_MSG_RESULT([$EMU_COMGR])])
AS_IF([test -z "$EMU_MISSING"],
  [AC_MSG_CHECKING([for libhsa-runtime64.so.1])
   EMU_ROCR=`$CC -print-file-name=libhsa-runtime64.so.1`
   AS_CASE([$EMU_ROCR], [/*], [EMU_ROCR=`readlink -f "$EMU_ROCR"`],
     [EMU_MISSING="libhsa-runtime64.so.1 was not found (Debian: apt-get install libhsa-runtime64-1)"])
   AC_MSG_RESULT([$EMU_ROCR])])
AS_IF([test -z "$EMU_MISSING" && test -n "$dma_sanitizers"],
  [EMU_MISSING="programs without sanitizers cannot load what this build makes (--enable-sanitizers)"])
AM_CONDITIONAL([HAVE_EMU], [test -z "$EMU_MISSING"])
AC_SUBST([EMU_MISSING])
AC_SUBST([EMU_COMGR])
AC_SUBST([EMU_ROCR])
])
