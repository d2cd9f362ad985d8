'use strict';

/** `web-locks completion`: makes completion scripts for shells from the tables of options. */

const { COMMANDS } = require('./arguments.js');
const { print } = require('./output.js');
const { Failure, STATUS } = require('./status.js');

/** @typedef {import('./arguments.js').Command} Command */
/** @typedef {import('./arguments.js').Option} Option */

/** @type {Record<string, () => string>} */
const SHELLS = { bash, zsh, fish };

/** @param {import('./arguments.js').ParsedCommand} request */
async function completion({ name = '' }) {
  if (!Object.hasOwn(SHELLS, name)) {
    const known = Object.keys(SHELLS).join(', ');
    throw new Failure(STATUS.usage, `the shell is '${name}'; expected one of ${known}.`);
  }
  await print(SHELLS[name]());
  return { status: STATUS.ok };
}

/** Quotes a word for a shell. @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @returns {[name: string, command: Command, options: [string, Option][]][]} */
const commands = () =>
  Object.entries(COMMANDS).map(([name, command]) => [
    name,
    command,
    Object.entries(command.options),
  ]);

/** Only `completion` takes a fixed list of words. @param {Command} command */
const takesShell = ({ usage }) => usage.includes('bash|zsh|fish');

/** @param {Command} command */
const takesFile = ({ takes }) => takes === 'the file';

/** The spellings (`--output`, `-o`) of the options whose values a shell completes as `kind`. */
const spellingsOf = (/** @type {[string, Option][]} */ options, /** @type {string} */ kind) =>
  options
    .filter(([, { value, completes }]) => value && (completes ?? 'text') === kind)
    .flatMap(([name, { short }]) => [`--${name}`, ...(short ? [`-${short}`] : [])]);

function bash() {
  const cases = commands().flatMap(([name, command, options]) => {
    const words = options.flatMap(([one, { short }]) => [
      `--${one}`,
      ...(short ? [`-${short}`] : []),
    ]);
    const first = takesShell(command) ? Object.keys(SHELLS).join(' ') : '';
    return [
      `    ${name})`,
      `      options=${quoted(`${words.join(' ')}${command.takesCommand ? ' --' : ''}`)}`,
      `      texts=${quoted(` ${spellingsOf(options, 'text').join(' ')} `)}`,
      `      files=${quoted(` ${spellingsOf(options, 'file').join(' ')} `)}`,
      `      folders=${quoted(` ${spellingsOf(options, 'folder').join(' ')} `)}`,
      `      first=${quoted(first)} takes_file=${takesFile(command) ? 'yes' : ''}`,
      '      ;;',
    ];
  });
  return `# Completion of web-locks for bash: source <(web-locks completion bash)
_web_locks() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} i
  local options texts files folders first takes_file
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W ${quoted(Object.keys(COMMANDS).join(' '))} -- "$word")
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
    *) return ;;
  esac
  # After -- there is another command.
  for ((i = 2; i < COMP_CWORD; i++)); do
    [[ \${COMP_WORDS[i]} == -- ]] || continue
    if declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
    elif ((i + 1 == COMP_CWORD)); then
      mapfile -t COMPREPLY < <(compgen -c -- "$word")
    else
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
    return
  done
  if [[ $texts == *" $before "* ]]; then
    return
  elif [[ $files == *" $before "* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  elif [[ $folders == *" $before "* ]]; then
    mapfile -t COMPREPLY < <(compgen -d -- "$word")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [[ $takes_file ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -W "$first" -- "$word")
  fi
}
complete -F _web_locks web-locks
`;
}

/** Escapes characters that are special in zsh's `_arguments`. @param {string} help */
const inBrackets = (help) => help.replace(/[\\[\]:]/g, '\\$&');

/** @type {Record<string, string>} */
const ZSH_ACTIONS = { file: '_files', folder: '_files -/', text: ' ' };

/** @param {string} name @param {Option} option */
function zshOption(name, { short, value, help, completes }) {
  const after = value ? `:${value}:${ZSH_ACTIONS[completes ?? 'text']}` : '';
  const text = `[${inBrackets(help)}]${after}`;
  const [long, one] = value ? [`--${name}=`, `-${short}+`] : [`--${name}`, `-${short}`];
  if (!short) return quoted(long + text);
  return `${quoted(`(-${short} --${name})`)}{${one},${long}}${quoted(text)}`;
}

/** The specifications of the arguments that are not options. @param {Command} command */
function zshWords(command) {
  if (takesShell(command)) return [quoted(`1:shell:(${Object.keys(SHELLS).join(' ')})`)];
  if (takesFile(command)) return [quoted('1:file:_files')];
  const name = command.takes ? [quoted('1:name: ')] : [];
  return command.takesCommand ? [...name, quoted('*::command:_normal')] : name;
}

function zsh() {
  const cases = commands().flatMap(([name, command, options]) => [
    `    ${name})`,
    `      _arguments -s \\`,
    [...options.map(([one, option]) => zshOption(one, option)), ...zshWords(command)]
      .map((line) => `        ${line}`)
      .join(' \\\n'),
    '      ;;',
  ]);
  const summaries = commands().map(
    ([name, { summary }]) => `    ${quoted(`${name}:${inBrackets(summary)}`)}`,
  );
  return `#compdef web-locks
# Completion of web-locks for zsh: source <(web-locks completion zsh), or this as a file _web-locks
# in a folder of $fpath
_web-locks() {
  local -a commands=(
${summaries.join('\n')}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
${cases.join('\n')}
  esac
}
if [[ $funcstack[1] == _web-locks ]]; then
  _web-locks "$@"
else
  compdef _web-locks web-locks
fi
`;
}

/** @type {Record<string, string>} */
const FISH_VALUES = {
  file: ' -r -F',
  folder: " -r -f -a '(__fish_complete_directories)'",
  text: ' -x',
};

function fish() {
  const lines = commands().flatMap(([name, command, options]) => {
    const isOwn = `__fish_seen_subcommand_from ${name}; and not contains -- -- (commandline -opc)`;
    const when = `complete -c web-locks -n ${quoted(isOwn)}`;
    const first = takesFile(command) ? [`${when} -F`] : [];
    if (takesShell(command)) first.push(`${when} -a ${quoted(Object.keys(SHELLS).join(' '))}`);
    return [
      `complete -c web-locks -n __fish_use_subcommand -a ${name} -d ${quoted(command.summary)}`,
      ...first,
      ...options.map(([one, { short, value, help, completes }]) => {
        const more = value ? FISH_VALUES[completes ?? 'text'] : '';
        return `${when}${short ? ` -s ${short}` : ''} -l ${one}${more} -d ${quoted(help)}`;
      }),
    ];
  });
  return `# Completion of web-locks for fish: web-locks completion fish | source
complete -c web-locks -f
${lines.join('\n')}
# After -- there is another command.
complete -c web-locks -n 'contains -- -- (commandline -opc)' -F -a '(__fish_complete_command)'
`;
}

module.exports = { completion };
