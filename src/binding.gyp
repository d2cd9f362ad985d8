{
  "variables": { "source": "." },
  "includes": ["web_locks.gypi"]
}
