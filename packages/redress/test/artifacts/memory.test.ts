import { expect, test } from 'vitest'
import { folderBench, s3Bench } from './benches.ts'
import { putElsewhere } from './processes.ts'

const MEBIBYTE = 2 ** 20

/** The most memory that a process had which did nothing but put one artifact. */
async function peakBytes(options: Parameters<typeof putElsewhere>[0], bytes: number): Promise<number> {
  const said = await putElsewhere(options, `of-${bytes}`, bytes).next()
  expect(said.bytes).toBe(bytes)
  return said.peakBytes ?? Number.NaN
}

test.each([
  ['folder', async () => folderBench()],
  ['s3', s3Bench],
])('%s: 160 MB stream through in the memory that 80 MB take', async (name, makeBench) => {
  const bench = await makeBench()
  try {
    const options =
      'server' in bench
        ? { url: bench.server.storeUrl(), credentials: bench.server.credentials }
        : { url: `file:${bench.root}`, limits: {} }
    const little = await peakBytes(options, 80 * MEBIBYTE)
    const much = await peakBytes(options, 160 * MEBIBYTE)
    console.info(
      `${name}: ${Math.round(little / MEBIBYTE)} MiB at 80 MiB, ${Math.round(much / MEBIBYTE)} MiB at 160 MiB`,
    )
    expect(much - little).toBeLessThan(20 * MEBIBYTE)
  } finally {
    await bench.stop()
  }
})
