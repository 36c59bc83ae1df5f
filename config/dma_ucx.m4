# DMA_CHECK_UCX
#
# UCX 1.13 or later, for transfers between nodes. Sets UCX_CFLAGS, dma_ucx, the conditional HAVE_UCX and summary_ucx, and
# adds DMA_HAVE_UCX to DMA_DEFINES. If a directory is given, only the UCX in it counts, and at run time it is looked for
# there first. Nothing is linked with it (ucx_tl/calls.h).
AC_DEFUN([DMA_CHECK_UCX], [
DMA_OPTION([ucx], [transfers between nodes over the UCX installed there @<:@where it is found@:>@])
dma_found= dma_later="the component stays inside nodes (Debian: apt-get install libucx-dev)"
AS_IF([test $dma_want != no],
  [dma_save_pkg=$PKG_CONFIG_PATH
   AS_IF([test -n "$dma_dir"],
    [PKG_CONFIG_PATH="$dma_dir/lib/pkgconfig:$dma_dir/lib64/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
     export PKG_CONFIG_PATH])
   PKG_CHECK_EXISTS([ucx >= 1.13], [dma_found="UCX `$PKG_CONFIG --modversion ucx`"],
    [PKG_CHECK_EXISTS([ucx], [dma_later="UCX `$PKG_CONFIG --modversion ucx` is older than 1.13; the component stays inside nodes"])])
   AS_IF([test -n "$dma_dir"],
    [AS_CASE([$dma_found,`$PKG_CONFIG --variable=prefix ucx 2>/dev/null`],
      [,*|*,"$dma_dir"], [],
      [dma_found=])])
   AS_IF([test -n "$dma_found"],
    [UCX_CFLAGS=`$PKG_CONFIG --cflags ucx`
     AS_IF([test -n "$dma_dir"],
      [UCX_CFLAGS="$UCX_CFLAGS -DDMA_UCX_LIBDIR=\\\"`$PKG_CONFIG --variable=libdir ucx`\\\""])
     dma_save_CPPFLAGS=$CPPFLAGS
     dma_save_LIBS=$LIBS
     CPPFLAGS="$CPPFLAGS `$PKG_CONFIG --cflags ucx`"
     LIBS="`$PKG_CONFIG --libs ucx` $LIBS"
     AC_MSG_CHECKING([whether programs link with UCX])
     AC_LINK_IFELSE([AC_LANG_PROGRAM([[@%:@include <ucp/api/ucp.h>]],
       [[return ucp_am_send_nbx == 0 || UCP_ERR_HANDLING_MODE_PEER == 0;]])],
      [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])
       dma_found=])
     CPPFLAGS=$dma_save_CPPFLAGS
     LIBS=$dma_save_LIBS])
   PKG_CONFIG_PATH=$dma_save_pkg])
DMA_OPTION_DONE([ucx], [UCX], [$dma_found], [$dma_later], [$dma_later])
AS_IF([test -n "$dma_found"],
  [DMA_DEFINES="$DMA_DEFINES -DDMA_HAVE_UCX=1"
   summary_ucx="$dma_found, between nodes" dma_ucx=yes],
  [UCX_CFLAGS= dma_ucx=no])
AC_SUBST([UCX_CFLAGS])
AC_SUBST([dma_ucx])
AM_CONDITIONAL([HAVE_UCX], [test -n "$dma_found"])
])
