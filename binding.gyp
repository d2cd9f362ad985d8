# Builds the addon in a clone: scripts/prepare.js, `npm run build`. It is not in the package, where npm
# would take it for an install script; those who build there use src/binding.gyp.
{
  "variables": { "source": "src" },
  "includes": ["src/web_locks.gypi"]
}
