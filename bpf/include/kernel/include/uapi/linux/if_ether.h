/* bcc includes this of a kernel tree; nothing in it is needed. */
