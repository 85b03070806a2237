import type { HubEvent } from '../../packages/redress/src/app/events/hub-events.ts'
import type { Subscription } from '../../packages/redress/src/app/events/subscription.ts'
import { turns } from './until.ts'

/** Collects what a subscription gives, as fast as it comes. */
export function collect(subscription: Subscription): { events: HubEvent[]; ended: Promise<void> } {
  const events: HubEvent[] = []
  const ended = (async () => {
    for await (const event of subscription) events.push(event)
  })()
  return { events, ended }
}

/** Everything that has been told by now, without waiting for more. */
export async function fetchAll(subscription: Subscription): Promise<HubEvent[]> {
  const events: HubEvent[] = []
  for (let still = 0; still < 3; ) {
    await turns()
    if (subscription.waiting === 0) still++
    else still = 0
    while (subscription.waiting > 0) {
      const { value } = await subscription.next()
      events.push(value)
    }
  }
  return events
}
