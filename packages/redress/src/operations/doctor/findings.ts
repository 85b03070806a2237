/** What was looked at, how it stands, and what to do about it. */
export interface Finding {
  check: string
  /** `wrong` is an error for whoever asks; a `warning` only where that is asked for. */
  level: 'ok' | 'warning' | 'wrong'
  says: string
  /** null where nothing is to be done. */
  fix: string | null
}

export const ok = (check: string, says: string): Finding => ({ check, level: 'ok', says, fix: null })
export const warning = (check: string, says: string, fix: string): Finding => ({ check, level: 'warning', says, fix })
export const wrong = (check: string, says: string, fix: string): Finding => ({ check, level: 'wrong', says, fix })

/** That all is fine is said where nothing else is to be said. */
export const orFine = (findings: Finding[], fine: Finding): Finding[] => (findings.length === 0 ? [fine] : findings)

export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
