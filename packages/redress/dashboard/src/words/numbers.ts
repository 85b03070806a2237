const WHOLE = new Intl.NumberFormat('en-US')

/** '12,345'. */
export const count = (n: number): string => WHOLE.format(n)

/** '10,000+' where counting stopped at a bound. */
export const bounded = ({ count: n, isMore }: { count: number; isMore: boolean }): string =>
  isMore ? `${count(n)}+` : count(n)

/** 'one job', '3 jobs'. */
export const some = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`

/** '97 %'; never 100 or 0 where it is not quite. */
export function percent(part: number, whole: number): string {
  if (whole === 0) return '0 %'
  const share = (part / whole) * 100
  if (share > 99 && share < 100) return '> 99 %'
  return share > 0 && share < 1 ? '< 1 %' : `${Math.round(share)} %`
}
