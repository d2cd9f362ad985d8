// What `require` makes of a native binary.
declare module '*.node';
