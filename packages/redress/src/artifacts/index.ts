/** Files of jobs, kept by key in a folder or a bucket: `redress/artifacts`. */
export type {
  ArtifactBody,
  ArtifactContent,
  ArtifactHead,
  ArtifactPage,
  ArtifactStore,
  StoredArtifact,
} from './artifact-store.ts'
export type { SpaceLimits } from './folder/space.ts'
export { keyPart } from './key.ts'
export { type ArtifactStoreOptions, artifactStore } from './open.ts'
export type { S3Credentials } from './s3/options.ts'
