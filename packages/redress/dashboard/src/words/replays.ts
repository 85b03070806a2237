import type { ReplayState, SkipCode } from '../../../src/core/dead-letter/replay.ts'
import type { IconName } from '../parts/Icon.tsx'

interface StateWords {
  tone: 'good' | 'bad' | 'warn' | 'plain'
  icon: IconName
  meaning: string
}

export const REPLAY_WORDS: Readonly<Record<ReplayState, StateWords>> = {
  planning: { tone: 'plain', icon: 'queued', meaning: 'Its selection was not finished. Abort it and plan again.' },
  planned: {
    tone: 'plain',
    icon: 'queued',
    meaning: 'The selection is stored. The replay runs when a person starts it.',
  },
  canary: {
    tone: 'warn',
    icon: 'processing',
    meaning: 'The first letters go; the rest waits until their jobs have ended.',
  },
  running: { tone: 'warn', icon: 'processing', meaning: 'Letter after letter becomes a job.' },
  paused: { tone: 'warn', icon: 'pause', meaning: 'No letter becomes a job until the replay is resumed.' },
  stopped: {
    tone: 'bad',
    icon: 'open',
    meaning: 'Its canary stopped it: too many of the first jobs did not complete. The rest waits for a decision.',
  },
  done: { tone: 'good', icon: 'complete', meaning: 'Every letter became a job or was skipped.' },
  aborted: { tone: 'plain', icon: 'cancelled', meaning: 'It was aborted. Jobs that it made continue.' },
}

export const SKIP_WORDS: Readonly<Record<SkipCode, string>> = {
  'already-replayed': 'it was replayed, or its job was retried',
  purged: 'the letter was purged',
  'not-failed': 'its job is not failed any more',
  'not-allowed': 'its policy forbids manual retries',
  refused: 'its type refuses the input',
  twin: 'a live job holds its dedupe key',
}

/** '5 a second', '1.5 a minute'; `null` is as fast as it goes. */
export function rateWords(perSecond: number | null): string {
  if (perSecond === null) return 'as fast as workers make them'
  const [number, unit] =
    perSecond >= 1
      ? [perSecond, 'second']
      : perSecond * 60 >= 1
        ? [perSecond * 60, 'minute']
        : [perSecond * 3600, 'hour']
  return `at most ${Number(number.toFixed(2))} a ${unit}`
}
