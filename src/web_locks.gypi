# The addon. A file that includes this one sets `source` to the path of the sources: binding.gyp of
# the repository, which npm builds by itself, and src/binding.gyp, which the package ships for users
# who build the addon.
{
  # Warnings are errors only if GYP_DEFINES has strict=1, as in CI, because users have newer
  # compilers with other warnings.
  "variables": {
    "napi_version": "6",
    # For tests: checks every invariant of the core after each critical section, and counts its
    # allocations.
    "checks%": "0",
    "strict%": "0",
    # For tests: on Linux, uses only the system calls that the port to macOS also uses.
    "plain_port%": "0",
    # For tests: batches and tables with the least possible capacity (WLK_CAPACITY in port.h).
    "small%": "0"
  },
  "target_defaults": {
    "cflags": ["-Wall", "-Wextra", "-fvisibility=hidden"],
    "conditions": [
      ["strict==1", { "cflags": ["-Werror"] }],
      ["checks==1", { "defines": ["WLK_CHECKS"] }],
      ["plain_port==1", { "defines": ["WLH_PLAIN"] }],
      ["small==1", { "defines": ["WLK_SMALL"] }]
    ],
    "cflags_c": ["-std=c11"],
    "xcode_settings": {
      "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
      "CLANG_CXX_LANGUAGE_STANDARD": "c++17",
      "GCC_C_LANGUAGE_STANDARD": "c11"
    }
  },
  "targets": [
    {
      "target_name": "core",
      "type": "static_library",
      "sources": ["<(source)/core/all.c"],
      # glibc declares the adaptive mutex (port.h) only with _GNU_SOURCE.
      "defines": ["_GNU_SOURCE"]
    },
    {
      # The host scope. On systems without it, every call fails with a message.
      "target_name": "host",
      "type": "static_library",
      "sources": ["<(source)/host/all.c"],
      "defines": ["_GNU_SOURCE"]
    },
    {
      "target_name": "web_locks",
      "dependencies": ["host", "core"],
      "sources": ["<(source)/binding/all.cc"],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": [
        "NAPI_VERSION=<(napi_version)",
        "NAPI_DISABLE_CPP_EXCEPTIONS",
        "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"
      ],
      "conditions": [
        ["OS=='linux'", {
          "ldflags": ["-Wl,--version-script=<(module_root_dir)/<(source)/binding/exports.map"]
        }]
      ]
    }
  ]
}
