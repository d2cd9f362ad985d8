{
  "variables": { "source": "src" },
  "includes": ["src/web_locks.gypi"]
}
