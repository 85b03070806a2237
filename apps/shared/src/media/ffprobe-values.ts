/** Of what ffprobe writes as text: seconds, with a fraction. */
export function millisecondsOf(seconds: string | undefined): number | null {
  const value = Number(seconds)
  return value > 0 ? Math.round(value * 1000) : null
}

/** "00:01:02.500000000", as Matroska has it. */
export function clockMsOf(text: string | undefined): number | null {
  const [, hours, minutes, seconds] = /^(\d+):(\d\d):(\d\d(?:\.\d+)?)$/.exec(text ?? '') ?? []
  return millisecondsOf(String(Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)))
}

/** "30000/1001"; null for "0/0", and for what no camera makes. */
export function fpsOf(fraction: string | undefined): number | null {
  const [over = 0, under = 0] = (fraction ?? '').split('/').map(Number)
  const value = over / under
  return value > 0 && value < 1000 ? value : null
}
