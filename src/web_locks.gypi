# The addon. What includes it says in `source` where the sources are: binding.gyp of the repository,
# which npm builds by itself, and src/binding.gyp, which the package has for those who build it.
{
  # Warnings are errors where GYP_DEFINES has strict=1, as in CI: not for users, whose compilers are
  # newer.
  "variables": {
    "napi_version": "6",
    # Every invariant of the core checked after every turn, and its allocations counted: for tests.
    "checks%": "0",
    "strict%": "0",
    # Linux without the calls that only it has, as macOS has the host scope: for tests.
    "plain_port%": "0",
    # As little room at a time as can be: for tests.
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
      # For glibc's adaptive mutex, see port.h.
      "defines": ["_GNU_SOURCE"]
    },
    {
      # The host scope; where there is none, stubs that say so.
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
