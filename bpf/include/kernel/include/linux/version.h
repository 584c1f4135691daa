/* bcc wants a version; nothing here depends on it, types and hooks come from the running kernel's BTF. */
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(5, 8, 0)
