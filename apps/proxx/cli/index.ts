export { type WatchOptions, watchFolder } from '../watch/watch.ts'
export { type LocalOptions, localPlace, type Place, remotePlace } from './place.ts'
