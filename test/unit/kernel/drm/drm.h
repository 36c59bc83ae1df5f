/* Replaces the kernel's header of this name where the DRM headers are not installed: linux/kfd_ioctl.h needs its types. */
#include <linux/types.h>
