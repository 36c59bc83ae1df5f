/* Stands in where the kernel's headers are installed without those of DRM: of these, linux/kfd_ioctl.h wants the types. */
#include <linux/types.h>
