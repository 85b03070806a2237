import { CATALOG, type OperationName } from '../../../src/operations/catalog.ts'

const isGiven = (value: unknown): boolean => value !== undefined && value !== null && value !== '' && value !== false

/** A word as a shell takes it. */
const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** The same on the command line: `redress jobs retry ID --reason 'the disk is back'`. */
export function cliOf(name: OperationName, input: Readonly<Record<string, unknown>>): string {
  const rest = { ...input }
  const words = CATALOG[name].cli.split(' ').flatMap((word) => {
    const field = /^[<[](\w+)[\]>]$/.exec(word)?.[1]
    if (field === undefined) return [word]
    const value = rest[field]
    delete rest[field]
    return isGiven(value) ? [quoted(asText(value))] : []
  })
  const options = Object.entries(rest).flatMap(([field, value]) => {
    if (!isGiven(value)) return []
    const option = `--${field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
    return value === true ? [option] : [option, quoted(asText(value))]
  })
  return ['redress', ...words, ...options].join(' ')
}
