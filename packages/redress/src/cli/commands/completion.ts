import { RedressError } from '../../core/errors.ts'
import { ALIASES, COMMANDS, type Command, commandNamed, commandsOf, groupsOf, nameOf } from '../language/commands.ts'
import { COMMON_OPTIONS, type OptionSpec } from '../language/parse.ts'
import type { Program } from '../programs.ts'

const SHELLS = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof SHELLS)[number]

export const completion: Program = {
  options: [],
  places: [{ name: 'shell', description: SHELLS.join(', ') }],
  examples: [
    'redress completion bash > ~/.local/share/bash-completion/completions/redress',
    'redress completion zsh > ~/.zfunc/_redress',
    'redress completion fish > ~/.config/fish/completions/redress.fish',
  ],
  async run(_command, { positionals }) {
    const shell = positionals[0] as Shell
    if (!SHELLS.includes(shell)) {
      throw new RedressError('USAGE', `There is no completion for "${shell}".`, {
        action: `Choose one of ${SHELLS.join(', ')}.`,
      })
    }
    process.stdout.write(SCRIPTS[shell](await wordsOfAll()))
  },
}

interface Word {
  word: string
  summary: string
}

interface Completed {
  /** 'jobs list'; an alias has an entry of its own. */
  name: string
  options: readonly OptionSpec[]
}

interface Words {
  first: readonly Word[]
  /** By group. */
  second: readonly { group: string; words: readonly Word[] }[]
  commands: readonly Completed[]
}

async function wordsOfAll(): Promise<Words> {
  // Loaded here, because that file loads this one.
  const { programOf } = await import('../programs.ts')
  const { allAppCommands } = await import('../apps/app-commands.ts')
  const all = [...COMMANDS, ...(await allAppCommands())]
  const groups = groupsOf(all)
  const within = (group: string) => commandsOf(group, all)
  const completed = async (name: string, command: Command): Promise<Completed> => ({
    name,
    options: [...(await programOf(command)).options, ...COMMON_OPTIONS],
  })
  const aliases = Object.entries(ALIASES).map(([alias, long]) => ({
    alias,
    command: commandNamed(long) as Command,
  }))
  return {
    first: [
      ...all.filter(({ words }) => words.length === 1).map(asWord),
      ...groups.map((group) => ({ word: group, summary: `${within(group).map(lastWord).join(', ')}` })),
      ...aliases.map(({ alias, command }) => ({ word: alias, summary: command.summary })),
      { word: 'help', summary: 'Show help.' },
    ],
    second: groups.map((group) => ({ group, words: within(group).map(asWord) })),
    commands: await Promise.all([
      ...all.map((command) => completed(nameOf(command), command)),
      ...aliases.map(({ alias, command }) => completed(alias, command)),
    ]),
  }
}

const lastWord = ({ words }: Command): string => words.at(-1) as string
const asWord = (command: Command): Word => ({ word: lastWord(command), summary: command.summary })
const listed = (words: readonly Word[]): string => words.map(({ word }) => word).join(' ')
const spelledOut = (options: readonly OptionSpec[]): string => options.map(({ option }) => `--${option}`).join(' ')
/** For each of these shells: a quote inside quotes. */
const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** Each set of options once: many commands have the same. */
function byOptions(commands: readonly Completed[]): { names: string[]; options: readonly OptionSpec[] }[] {
  const found = new Map<string, { names: string[]; options: readonly OptionSpec[] }>()
  for (const { name, options } of commands) {
    const key = spelledOut(options)
    const known = found.get(key) ?? { names: [], options }
    known.names.push(name)
    found.set(key, known)
  }
  return [...found.values()]
}

/** Options that take one of a few values: the same option has others in another command. */
const choicesOf = (commands: readonly Completed[]): { name: string; option: string; choices: readonly string[] }[] =>
  commands.flatMap(({ name, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ option, choices }) => ({ name, option: `--${option}`, choices })),
  )

const SCRIPTS: Readonly<Record<Shell, (words: Words) => string>> = {
  bash: ({ first, second, commands }) => `# redress completion for bash, made by \`redress completion bash\`
_redress() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  local first=\${COMP_WORDS[1]} second=\${COMP_WORDS[2]} command options
  COMPREPLY=()
  if [[ $COMP_CWORD -eq 1 && $cur != -* ]]; then
    COMPREPLY=($(compgen -W '${listed(first)}' -- "$cur"))
    return
  fi
  if [[ $COMP_CWORD -eq 2 && $cur != -* ]]; then
    case $first in
${second.map(({ group, words }) => `      ${group}) COMPREPLY=($(compgen -W '${listed(words)}' -- "$cur")); return ;;`).join('\n')}
    esac
  fi
  case $first in
    ${second.map(({ group }) => group).join(' | ')}) command="$first $second" ;;
    *) command=$first ;;
  esac
  case "$command $prev" in
${choicesOf(commands)
  .map(
    ({ name, option, choices }) =>
      `    '${name} ${option}') COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$cur")); return ;;`,
  )
  .join('\n')}
  esac
  [[ $cur == -* ]] || return
  case $command in
${byOptions(commands)
  .map(({ names, options }) => `    ${names.map(quote).join(' | ')}) options='${spelledOut(options)}' ;;`)
  .join('\n')}
  esac
  COMPREPLY=($(compgen -W "$options" -- "$cur"))
}
complete -o default -F _redress redress
`,

  zsh: ({ first, second, commands }) => `#compdef redress
# redress completion for zsh, made by \`redress completion zsh\`
_redress() {
  local first=$words[2] second=$words[3] command
  local -a found
  if (( CURRENT == 2 )) && [[ $PREFIX != -* ]]; then
    found=(
${described(first)}
    )
    _describe -t commands command found
    return
  fi
  if (( CURRENT == 3 )) && [[ $PREFIX != -* ]]; then
    case $first in
${second
  .map(
    ({ group, words }) => `      ${group})
        found=(
${described(words)}
        )
        _describe -t commands command found
        return ;;`,
  )
  .join('\n')}
    esac
  fi
  case $first in
    ${second.map(({ group }) => group).join('|')}) command="$first $second" ;;
    *) command=$first ;;
  esac
  case "$command $words[CURRENT-1]" in
${choicesOf(commands)
  .map(({ name, option, choices }) => `    '${name} ${option}') compadd -- ${choices.join(' ')}; return ;;`)
  .join('\n')}
  esac
  if [[ $PREFIX != -* ]]; then
    _files
    return
  fi
  case $command in
${byOptions(commands)
  .map(({ names, options }) => `    ${names.map(quote).join('|')}) compadd -- ${spelledOut(options)} ;;`)
  .join('\n')}
  esac
}
if [[ $funcstack[1] == _redress ]]; then _redress "$@"; else compdef _redress redress; fi
`,

  fish: ({ first, second, commands }) => `# redress completion for fish, made by \`redress completion fish\`
function __redress_is
    set -l typed (commandline -opc)
    set -l words (count $argv)
    set -e typed[1]
    test (count $typed) -ge $words; and test "$typed[1..$words]" = "$argv"
end
function __redress_has
    test (count (commandline -opc)) -eq $argv[1]
end
${first.map(({ word, summary }) => `complete -c redress -f -n '__redress_has 1' -a ${word} -d ${fishQuote(summary)}`).join('\n')}
${second
  .flatMap(({ group, words }) =>
    words.map(
      ({ word, summary }) =>
        `complete -c redress -f -n '__redress_has 2; and __redress_is ${group}' -a ${word} -d ${fishQuote(summary)}`,
    ),
  )
  .join('\n')}
${commands
  .flatMap(({ name, options }) =>
    options.map(({ option, kind, choices, description, bare }) => {
      const value =
        kind === 'flag' || bare !== undefined
          ? ''
          : choices.length > 0
            ? ` -x -a ${fishQuote(choices.join(' '))}`
            : ' -r'
      return `complete -c redress -n '__redress_is ${name}' -l ${option}${value} -d ${fishQuote(description)}`
    }),
  )
  .join('\n')}
`,
}

const described = (words: readonly Word[]): string =>
  words.map(({ word, summary }) => `      ${quote(`${word}:${summary}`)}`).join('\n')

const fishQuote = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
