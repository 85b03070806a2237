import { clock, now, relative, wholeTime } from '../words/time.ts'

/** How long ago, or until when; the whole time is in its title. */
export function Ago({ at }: { at: string }) {
  return (
    <time dateTime={at} title={wholeTime(at)}>
      {relative(at, now.value)}
    </time>
  )
}

/** When, by the clock of whoever looks. */
export function Clock({ at }: { at: string }) {
  return (
    <time dateTime={at} title={wholeTime(at)}>
      {clock(at, now.value)}
    </time>
  )
}
