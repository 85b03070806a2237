import { expect, onTestFinished } from 'vitest'
import { type Desk, type DeskOptions, openDesk } from './open-desk.ts'

/** A desk that is cleared when the test is over. With the story told, unless `story` says otherwise. */
export async function makeDesk(options: DeskOptions = {}): Promise<Desk> {
  const desk = await openDesk(options)
  onTestFinished(async () => {
    await desk.close()
    expect(desk.troubles).toEqual([])
  })
  return desk
}
