import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { folderBench, s3Bench } from './benches.ts'
import { failingPromises } from './promises/failing.ts'
import { listingPromises } from './promises/listing.ts'
import type { Place } from './promises/place.ts'
import { puttingPromises } from './promises/putting.ts'
import { readingPromises } from './promises/reading.ts'

/** The promises of ArtifactStore, tried on every driver. */
describe.each([
  ['folder', async () => folderBench()],
  ['s3', s3Bench],
])('%s', (name, makeBench) => {
  const place = {} as Place

  beforeEach(async () => {
    place.bench = await makeBench()
    place.store = await place.bench.open()
  })
  afterEach(async () => {
    const left = place.bench.leftovers()
    await place.store.close()
    await place.bench.stop()
    // Whatever a test did: when it is over, nothing is there that nobody can see.
    expect(left).toEqual([])
  })

  puttingPromises(place)
  failingPromises(place)
  readingPromises(place)
  listingPromises(place)

  test('without limits nothing is under pressure', async () => {
    expect(await place.store.pressure()).toBe('ok')
    const { bytesUsed, bytesFree } = await place.store.usage()
    expect(bytesUsed).toBeNull()
    if (name === 'folder') expect(bytesFree).toBeGreaterThan(0)
    else expect(bytesFree).toBeNull()
  })
})
