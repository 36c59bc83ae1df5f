# DMA_CHECK_EMU
#
# The emulated GPU node of the tests, below the real runtimes: at the kernel's calls, or, with the thunk of ROCm 5.2, in place
# of that library. Needs the runtimes' headers, and programs for the tests HIP itself. Sets HAVE_EMU, EMU_MISSING (what to say
# instead), EMU_DOORS (where the node can stand, the first unless told otherwise), HAVE_EMU_THUNK, HAVE_HSAKMT (whether there
# is a thunk for programs), EMU_COMGR (the compiler library that HIP loads, whose results are kept) and EMU_ROCR (the runtime
# below HIP, which can be made to look newer).
AC_DEFUN([DMA_CHECK_EMU], [
EMU_MISSING=
AC_CHECK_HEADER([hsa/amd_hsa_signal.h], [],
  [EMU_MISSING="hsa/amd_hsa_signal.h was not found (Debian: apt-get install libhsa-runtime-dev)"],
  [@%:@include <hsa/hsa.h>])
AS_IF([test -z "$EMU_MISSING"],
  [AC_CHECK_HEADER([hip/hip_runtime_api.h], [],
    [EMU_MISSING="hip/hip_runtime_api.h was not found (Debian: apt-get install libamdhip64-dev)"],
    [@%:@define __HIP_PLATFORM_AMD__ 1])])
AS_IF([test -z "$EMU_MISSING"],
  [AC_CHECK_HEADERS([amd_comgr.h amd_comgr/amd_comgr.h], [break])
   AS_IF([test "$ac_cv_header_amd_comgr_h$ac_cv_header_amd_comgr_amd_comgr_h" = nono],
    [EMU_MISSING="amd_comgr.h was not found (Debian: apt-get install libamd-comgr-dev)"])])
AS_IF([test -z "$EMU_MISSING"],
  [AC_MSG_CHECKING([for libamd_comgr.so])
   for dma_name in libamd_comgr.so.3 libamd_comgr.so.2; do
     EMU_COMGR=`$CC -print-file-name=$dma_name`
     AS_CASE([$EMU_COMGR], [/*], [break])
   done
   EMU_COMGR_NAME=$dma_name
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
# Later thunks have calls and structures that the one of the node does not have.
dma_thunk=no
EMU_DOORS=kernel
AC_CHECK_HEADERS([hsakmt.h hsakmt/hsakmt.h],
  [AC_CHECK_DECL([hsaKmtAllocMemoryAlign], [dma_thunk=newer], [dma_thunk=known],
    [@%:@ifdef HAVE_HSAKMT_H
@%:@include <hsakmt.h>
@%:@else
@%:@include <hsakmt/hsakmt.h>
@%:@endif])
   break])
AS_IF([test $dma_thunk = known], [EMU_DOORS='thunk kernel'])
AM_CONDITIONAL([HAVE_EMU], [test -z "$EMU_MISSING"])
AM_CONDITIONAL([HAVE_EMU_THUNK], [test -z "$EMU_MISSING" && test $dma_thunk = known])
AC_SUBST([EMU_MISSING])
AC_SUBST([EMU_DOORS])
AC_SUBST([EMU_COMGR])
AC_SUBST([EMU_COMGR_NAME])
AC_SUBST([EMU_ROCR])
])
