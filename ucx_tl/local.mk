# Transport between nodes, over UCX. Without UCX all of it is left out.
ucx_sources = \
	ucx_tl/admit.c \
	ucx_tl/calls.c \
	ucx_tl/calls.h \
	ucx_tl/failed.c \
	ucx_tl/inspect.c \
	ucx_tl/internal.h \
	ucx_tl/listen.c \
	ucx_tl/match.c \
	ucx_tl/message.c \
	ucx_tl/net.c \
	ucx_tl/peer.c \
	ucx_tl/place.c \
	ucx_tl/progress.c \
	ucx_tl/transports.c \
	ucx_tl/ucx_tl.h \
	ucx_tl/watch.c
if HAVE_UCX
core_sources += $(ucx_sources)
endif
extra_files += $(ucx_sources)
