/** How long the other side asks us to wait: seconds, or the date of an HTTP header. Null when it says neither. */
export function retryAfterMs(header: string | null | undefined, nowMs: number): number | null {
  const text = header?.trim() ?? ''
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  // Date.parse takes nearly anything, "7.5" too; every form of an HTTP date begins with the name of a day.
  if (!/^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /.test(text)) return null
  // The old asctime form says no zone, and means GMT all the same.
  const atMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs)
}
