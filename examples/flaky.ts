/**
 * A job type that says what can go wrong: its codes, the rules that recognise them, and a policy that answers
 * "what next?". The shop below fails on purpose.
 *
 *   redress worker examples/flaky.ts --data /tmp/flaky
 *   redress submit shop.order '{"order":7,"shop":"busy"}' --data /tmp/flaky
 *   redress explain JOB --data /tmp/flaky
 */
import { exponential, failureCodes, redress, rule } from 'redress'
import { z } from 'zod'

export const app = redress()

/** All failures, each with its fault and the message for people. */
const codes = failureCodes({
  SOLD_OUT: { fault: 'caller', retry: 'never', message: 'This article is sold out.' },
  SHOP_BUSY: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The shop is busy. We will order again shortly.',
    message: 'The shop stayed busy. Order again later.',
  },
  WRONG_RECEIPT: { fault: 'dependency', retry: 'never', message: 'The shop sent the receipt of another order.' },
})

export const order = app.job('shop.order', {
  input: z.object({ order: z.int(), shop: z.enum(['open', 'busy', 'sold-out', 'mixed-up', 'closed']) }),
  codes,

  // Structured facts first: a status is more reliable than a text. The first matching rule gives the code.
  classify: [
    rule.http({ status: [429, 503] }, 'SHOP_BUSY'),
    rule.errno(['ECONNREFUSED', 'ECONNRESET'], 'SHOP_BUSY'),
    rule.http({ status: 410 }, 'SOLD_OUT'),
    rule.phase('verification', 'WRONG_RECEIPT'),
  ],

  policy: {
    retry: { max: 4, backoff: exponential('1s', { cap: '1m', jitter: '20%' }) },
    timeout: { attempt: '10s', total: '5m' },
    manualRetry: 'in-place',
    orphan: 'requeue',
    errors: 'latest',
  },

  run: async (input, attempt) => {
    const receipt = await buy(input.order, input.shop, attempt.number)
    return { order: input.order, ...receipt }
  },

  // An error here is a verification failure: the work was done, but its output is wrong.
  verify: ({ order, forOrder }) => {
    if (forOrder !== order) throw new Error(`ordered ${order}, and the receipt is for ${forOrder}`)
  },
})

async function buy(order: number, shop: string, attempt: number): Promise<{ forOrder: number }> {
  // Busy for two attempts, then it answers.
  if (shop === 'busy' && attempt < 3) throw answer(503, 'Service Unavailable', { 'retry-after': '2' })
  if (shop === 'sold-out') throw answer(410, 'Gone')
  if (shop === 'closed') throw Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:80'), { code: 'ECONNREFUSED' })
  return { forOrder: shop === 'mixed-up' ? order + 1 : order }
}

/** As an HTTP client throws it. */
function answer(status: number, text: string, headers: Record<string, string> = {}): Error {
  return Object.assign(new Error(`the shop answered ${status} ${text}`), { status, headers })
}
