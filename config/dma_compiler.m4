# DMA_COMPILER_FLAGS
#
# --enable-werror and --enable-sanitizers; sets DMA_CFLAGS, DMA_LDFLAGS and DMA_DEFINES.
AC_DEFUN([DMA_COMPILER_FLAGS], [
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])],
  [], [enable_werror=no])
AC_ARG_ENABLE([sanitizers],
  [AS_HELP_STRING([--enable-sanitizers@<:@=LIST@:>@],
    [build everything with these sanitizers: address,undefined (default) or thread])],
  [], [enable_sanitizers=no])
DMA_CFLAGS="-std=gnu11 -Wall -Wextra -fvisibility=hidden"
DMA_LDFLAGS=
DMA_DEFINES=-DNDEBUG
AS_IF([test "$enable_werror" = yes], [DMA_CFLAGS="$DMA_CFLAGS -Werror"])
AS_CASE([$enable_sanitizers],
  [no], [dma_sanitizers=],
  [yes], [dma_sanitizers=address,undefined],
  [dma_sanitizers=$enable_sanitizers])
AS_IF([test -n "$dma_sanitizers"], [
  # Undefined behaviour ends the program. Otherwise a test would not notice it.
  dma_flags="-fsanitize=$dma_sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer"
  AC_MSG_CHECKING([whether $CC takes -fsanitize=$dma_sanitizers])
  dma_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS $dma_flags"
  AC_LINK_IFELSE([AC_LANG_PROGRAM()],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$CC cannot build with -fsanitize=$dma_sanitizers])])
  CFLAGS=$dma_save_CFLAGS
  DMA_CFLAGS="$DMA_CFLAGS $dma_flags"
  DMA_LDFLAGS="-fsanitize=$dma_sanitizers"
  DMA_DEFINES=
  # GCC warns that ThreadSanitizer does not understand fences. This is not an error of the code.
  AS_CASE([$dma_sanitizers,$enable_werror], [*thread*,yes], [DMA_CFLAGS="$DMA_CFLAGS -Wno-error=tsan"])
])
AC_SUBST([DMA_CFLAGS])
AC_SUBST([DMA_LDFLAGS])
AC_SUBST([DMA_DEFINES])
])
