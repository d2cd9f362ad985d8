{
  "targets": [
    {
      "target_name": "probe",
      "sources": ["probe.c"],
      "cflags_c": ["-std=c11", "-Wall", "-Wextra"],
      "defines": ["NAPI_VERSION=6"]
    }
  ]
}
