/* The container of device code, in a section of its own so that tools find it without running anything. */
    .section .volta.device, "a", @progbits
    .balign 16
    .hidden volta_device_container
    .globl volta_device_container
    .type volta_device_container, @object
volta_device_container:
    .incbin VOLTA_CONTAINER
    .size volta_device_container, . - volta_device_container
    .section .note.GNU-stack, "", @progbits
