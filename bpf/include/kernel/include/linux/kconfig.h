/* What bcc asks of a kernel's configuration. */
#define CONFIG_BPF_SYSCALL 1
