# DMA_STAND_IN(header, folder)
#
# If Open MPI's installation lacks this internal header, the headers in config/compat/FOLDER replace it.
AC_DEFUN([DMA_STAND_IN], [
AC_MSG_CHECKING([for $1])
AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
#include "ompi_config.h"
#include "$1"
]])],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no; ours stands in])
   OMPI_COMPAT="$OMPI_COMPAT $2"
   OMPI_COMPONENT_CPPFLAGS="-I\$(top_srcdir)/config/compat/$2 $OMPI_COMPONENT_CPPFLAGS"
   CPPFLAGS="$CPPFLAGS -I`cd "$srcdir" && pwd`/config/compat/$2"])
])

# DMA_CHECK_OMPI
#
# Finds Open MPI by its compiler wrapper, refuses a series this version was not built and tested with, and finds out
# where components and help files go. Starts no job, because builders of packages allow none. A cross build runs nothing of
# the target's Open MPI but the wrapper, for which a script will do. Sets OMPI_VERSION, OMPI_SERIES, OMPI_BINDIR, OMPI_COMPONENT_DIR, OMPI_HELP_DIR and
# the flags: OMPI_PROGRAM_* for MPI programs, OMPI_COMPONENT_* for the component.
AC_DEFUN([DMA_CHECK_OMPI], [
AC_ARG_WITH([ompi],
  [AS_HELP_STRING([--with-ompi=DIR], [Open MPI installed under DIR @<:@the mpicc in PATH@:>@])],
  [], [with_ompi=yes])
AC_ARG_VAR([MPICC], [Open MPI's compiler wrapper])
AS_CASE([$with_ompi],
  [no], [AC_MSG_ERROR([coll/dma is an Open MPI component: --without-ompi builds nothing])],
  [yes], [AC_PATH_PROGS([MPICC], [mpicc.openmpi mpicc])],
  [AC_PATH_PROGS([MPICC], [mpicc.openmpi mpicc], [], [$with_ompi/bin])])
AS_IF([test -z "$MPICC"],
  [AC_MSG_ERROR([no mpicc of Open MPI found; give --with-ompi=DIR (Debian: apt-get install libopenmpi-dev openmpi-bin)])])
OMPI_BINDIR=`AS_DIRNAME(["$MPICC"])`
dma_compile=`"$MPICC" -showme:compile 2>/dev/null` ||
  AC_MSG_ERROR([$MPICC is not Open MPI's compiler wrapper; give --with-ompi=DIR])
OMPI_PROGRAM_LIBS=`"$MPICC" -showme:link 2>/dev/null` ||
  AC_MSG_ERROR([$MPICC -showme:link fails])

AC_MSG_CHECKING([for Open MPI's version])
dma_save_CPPFLAGS=$CPPFLAGS
CPPFLAGS="$CPPFLAGS $dma_compile"
AC_COMPUTE_INT([dma_major], [OMPI_MAJOR_VERSION], [@%:@include <mpi.h>],
  [AC_MSG_ERROR([the mpi.h of $MPICC is not Open MPI's])])
AC_COMPUTE_INT([dma_minor], [OMPI_MINOR_VERSION], [@%:@include <mpi.h>])
AC_COMPUTE_INT([dma_release], [OMPI_RELEASE_VERSION], [@%:@include <mpi.h>])
CPPFLAGS=$dma_save_CPPFLAGS
OMPI_SERIES=$dma_major.$dma_minor
OMPI_VERSION=$OMPI_SERIES.$dma_release
AC_MSG_RESULT([$OMPI_VERSION])

# The only place that knows the series: what the component is linked with, so that the loader refuses it in another series.
AS_CASE([$OMPI_SERIES],
  [4.1], [OMPI_COMPONENT_LIBS="-lmpi -lopen-rte -lopen-pal"],
  [5.0], [OMPI_COMPONENT_LIBS="-lmpi -lopen-pal"],
  [6.0], [OMPI_COMPONENT_LIBS="-lopen_mpi -lopen-pal"],
  [AC_MSG_ERROR([Open MPI $OMPI_VERSION is not a series this version knows; it builds with 4.1, 5.0 and 6.0])])

DMA_OMPI_DIRS
DMA_COMPONENT_PATH

# Warnings about Open MPI's headers are not ours to fix.
dma_system=
for dma_flag in $dma_compile "-I$dma_include"; do
  AS_CASE([$dma_flag],
    [-I/usr/include], [dma_flag=],
    [-I*], [dma_flag="-isystem `echo "$dma_flag" | sed 's/^-I//'`"])
  AS_CASE([" $dma_system "], [*" $dma_flag "*], [], [dma_system="$dma_system $dma_flag"])
done
OMPI_PROGRAM_CPPFLAGS=$dma_system
OMPI_COMPONENT_CPPFLAGS=$dma_system
OMPI_COMPONENT_LDFLAGS=
for dma_flag in $OMPI_PROGRAM_LIBS; do
  AS_CASE([$dma_flag], [-L*|-Wl,-rpath*|-Wl,--enable-new-dtags],
    [OMPI_COMPONENT_LDFLAGS="$OMPI_COMPONENT_LDFLAGS $dma_flag"])
done

# From 5.0 on, Open MPI's headers include those of PMIx, which may be in a folder of their own.
AS_IF([test $dma_major -ge 5], [
  for dma_flag in `$PKG_CONFIG --cflags pmix 2>/dev/null`; do
    AS_CASE([$dma_flag], [-I/usr/include], [],
      [-I*], [OMPI_COMPONENT_CPPFLAGS="$OMPI_COMPONENT_CPPFLAGS -isystem `echo "$dma_flag" | sed 's/^-I//'`"])
  done])

# Packages lack some of Open MPI's internal headers. Ours replace those, and only those.
CPPFLAGS="$CPPFLAGS $OMPI_COMPONENT_CPPFLAGS"
OMPI_COMPAT=
DMA_STAND_IN([ompi/mpi/fortran/base/fint_2_int.h], [fortran])
AS_IF([test $dma_major -ge 5], [DMA_STAND_IN([opal/mca/threads/pthreads/threads_pthreads_mutex.h], [threads])])
AC_CHECK_HEADER([ompi/mca/coll/coll.h], [],
  [AC_MSG_ERROR([this Open MPI has no internal headers that compile (ompi/mca/coll/coll.h): build it with --with-devel-headers; see config.log])],
  [@%:@include "ompi_config.h"])
AC_CHECK_HEADER([ompi/mca/coll/base/coll_base_util.h], [],
  [AC_MSG_ERROR([Open MPI's internal headers do not compile; see config.log])],
  [@%:@include "ompi_config.h"])
# Events of MPI_T that components raise.
AC_CHECK_DECL([mca_base_component_event_register],
  [DMA_DEFINES="$DMA_DEFINES -DDMA_HAVE_EVENTS=1"
   summary_events="of MPI_T"],
  [summary_events="none, because Open MPI $OMPI_SERIES has no events of MPI_T"],
  [@%:@include "ompi_config.h"
@%:@include "opal/mca/base/base.h"
@%:@include "opal/mca/base/mca_base_event.h"])
CPPFLAGS=$dma_save_CPPFLAGS

AC_SUBST([OMPI_VERSION])
AC_SUBST([OMPI_SERIES])
AC_SUBST([OMPI_BINDIR])
AC_SUBST([OMPI_COMPONENT_DIR])
AC_SUBST([OMPI_HELP_DIR])
AC_SUBST([OMPI_PROGRAM_CPPFLAGS])
AC_SUBST([OMPI_PROGRAM_LIBS])
AC_SUBST([OMPI_COMPONENT_CPPFLAGS])
AC_SUBST([OMPI_COMPONENT_LDFLAGS])
AC_SUBST([OMPI_COMPONENT_LIBS])
])

# DMA_OMPI_DIRS
#
# Asks ompi_info, which knows all folders. In a cross build it cannot run. Then the wrapper says where the libraries are. The
# folder of the components is in there; its name differs between distributions (openmpi, openmpi3, openmpi40). The help files
# are beside the data of the wrapper.
AC_DEFUN([DMA_OMPI_DIRS], [
AS_IF([test "x$cross_compiling" = xyes], [
  OMPI_COMPONENT_DIR= OMPI_HELP_DIR= dma_include=
  for dma_dir in `"$MPICC" -showme:incdirs`; do
    test ! -d "$dma_dir/openmpi" || dma_include=$dma_dir/openmpi
  done
  for dma_dir in `"$MPICC" -showme:libdirs`; do
    for dma_file in "$dma_dir"/openmpi*; do
      test ! -d "$dma_file" || OMPI_COMPONENT_DIR=$dma_file
    done
    for dma_up in .. ../.. ../../.. ../../../..; do
      AS_IF([test -e "$dma_dir/$dma_up/share/openmpi/mpicc-wrapper-data.txt"],
        [OMPI_HELP_DIR=`cd "$dma_dir/$dma_up" && pwd`/share/openmpi])
    done
  done
  dma_asked=$MPICC
], [
  AC_PATH_PROG([OMPI_INFO], [ompi_info], [], [$OMPI_BINDIR$PATH_SEPARATOR$PATH])
  AS_IF([test -z "$OMPI_INFO"],
    [AC_MSG_ERROR([ompi_info not found beside $MPICC (Debian: apt-get install openmpi-bin)])])
  AC_MSG_CHECKING([whether ompi_info and mpicc belong together])
  dma_info=`"$OMPI_INFO" --version | sed -n 's/^Open MPI v//p'`
  AC_MSG_RESULT([$dma_info])
  AS_CASE([$dma_info],
    [$OMPI_VERSION|$OMPI_VERSION@<:@!0-9@:>@*], [],
    [AC_MSG_ERROR([$OMPI_INFO is of Open MPI $dma_info, $MPICC of $OMPI_VERSION; give --with-ompi=DIR])])
  OMPI_COMPONENT_DIR=`"$OMPI_INFO" --path pkglibdir --parsable | sed -n 's/^path:pkglibdir://p'`
  OMPI_HELP_DIR=`"$OMPI_INFO" --path pkgdatadir --parsable | sed -n 's/^path:pkgdatadir://p'`
  dma_include=`"$OMPI_INFO" --path pkgincludedir --parsable | sed -n 's/^path:pkgincludedir://p'`
  dma_asked=$OMPI_INFO
])
AC_MSG_CHECKING([where Open MPI keeps its components])
AS_IF([test -z "$OMPI_COMPONENT_DIR" || test -z "$OMPI_HELP_DIR"],
  [AC_MSG_RESULT([unknown])
   AC_MSG_ERROR([$dma_asked does not say where Open MPI is installed])])
AC_MSG_RESULT([$OMPI_COMPONENT_DIR])
])

# DMA_COMPONENT_PATH
#
# What else must be in OMPI_MCA_mca_base_component_path if it names our folder. Components of Open MPI that are files are
# found only if their folder is in it, too. OMPI_COMPONENT_REST is that folder, with a colon in front, or empty. From 5.0 on
# PMIx uses the variable, too, unless PMIX_MCA_mca_base_component_path says where its components are: PMIX_COMPONENT_DIR, if
# there are any. OMPI_PATH_KEPT is no if mpirun of 5.0 sets the variable for its ranks when the user has not set it: to what the file
# of PMIx's parameters says, if that has a line for it (Debian has, with PMIx's folder). Then a component in Open MPI's
# own folder is not found under mpirun. PMIx's build has decided where that file is; these are the places that are known.
AC_DEFUN([DMA_COMPONENT_PATH], [
OMPI_COMPONENT_REST=
for dma_file in "$OMPI_COMPONENT_DIR"/mca_*.so; do
  AS_CASE([$dma_file], [*/mca_coll_dma.so], [],
    [AS_IF([test -e "$dma_file"], [OMPI_COMPONENT_REST=:$OMPI_COMPONENT_DIR])])
done
PMIX_COMPONENT_DIR=
OMPI_PATH_KEPT=yes
AS_IF([test $dma_major -ge 5],
  [PMIX_COMPONENT_DIR=`$PKG_CONFIG --variable=libdir pmix 2>/dev/null`/pmix
   test -d "$PMIX_COMPONENT_DIR" || PMIX_COMPONENT_DIR=])
AS_IF([test $dma_major -eq 5],
  [AC_MSG_CHECKING([whether mpirun leaves the component path alone])
   OMPI_PATH_KEPT=unknown
   dma_prefix=`$PKG_CONFIG --variable=prefix pmix 2>/dev/null`
   for dma_dir in ${dma_prefix:+"$dma_prefix/etc" "$dma_prefix/share"} "`AS_DIRNAME(["$OMPI_BINDIR"])`/etc" /etc /etc/pmix; do
     AS_IF([grep '^@<:@ 	@:>@*mca_base_component_path' "$dma_dir/pmix-mca-params.conf" >/dev/null 2>&1],
       [OMPI_PATH_KEPT=no
        break],
       [test -r "$dma_dir/pmix-mca-params.conf"], [OMPI_PATH_KEPT=yes])
   done
   AC_MSG_RESULT([$OMPI_PATH_KEPT])])
AC_SUBST([OMPI_COMPONENT_REST])
AC_SUBST([PMIX_COMPONENT_DIR])
AC_SUBST([OMPI_PATH_KEPT])
])

# DMA_INSTALL_DIRS
#
# Where `make install` puts the component and its help file: into Open MPI, under the given --prefix, or into the given
# --with-mca-dir. Sets componentdir, helpdir and, if Open MPI does not look there by itself, DMA_INSTALL_ELSEWHERE.
AC_DEFUN([DMA_INSTALL_DIRS], [
AC_ARG_WITH([mca-dir],
  [AS_HELP_STRING([--with-mca-dir=DIR],
    [install the component into DIR @<:@Open MPI's own component directory, or LIBDIR/openmpi if --prefix is given@:>@])],
  [], [with_mca_dir=])
AS_CASE([$with_mca_dir],
  [yes|no], [AC_MSG_ERROR([--with-mca-dir needs a directory])],
  [''], [AS_IF([test "x$prefix" = xNONE],
    [componentdir=$OMPI_COMPONENT_DIR helpdir=$OMPI_HELP_DIR],
    [componentdir='${libdir}/openmpi' helpdir='${datadir}/openmpi'])],
  [/*], [componentdir=$with_mca_dir
    AS_IF([test "$componentdir" = "$OMPI_COMPONENT_DIR"], [helpdir=$OMPI_HELP_DIR], [helpdir=$componentdir])],
  [AC_MSG_ERROR([--with-mca-dir needs an absolute path, not $with_mca_dir])])
AC_SUBST([componentdir])
AC_SUBST([helpdir])
])
