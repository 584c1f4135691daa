/* bcc wants the size of a page, for ring buffers that are not declared through it here. */
#define PAGE_SIZE 4096
