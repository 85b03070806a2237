import type { ArtifactStore } from '../../../src/artifacts/artifact-store.ts'
import type { Bench } from '../benches.ts'

/** Made anew before each test. */
export interface Place {
  bench: Bench
  store: ArtifactStore
}
