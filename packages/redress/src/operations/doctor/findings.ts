/** The result of one check, with a suggested fix. */
export interface Finding {
  check: string
  /** `wrong` fails the check; a `warning` does so only with `--strict`. */
  level: 'ok' | 'warning' | 'wrong'
  says: string
  /** null if there is nothing to fix. */
  fix: string | null
}

export const ok = (check: string, says: string): Finding => ({ check, level: 'ok', says, fix: null })
export const warning = (check: string, says: string, fix: string): Finding => ({ check, level: 'warning', says, fix })
export const wrong = (check: string, says: string, fix: string): Finding => ({ check, level: 'wrong', says, fix })

/** The ok line is shown only if there is no problem. */
export const orFine = (findings: Finding[], fine: Finding): Finding[] => (findings.length === 0 ? [fine] : findings)

export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
