/** How much is to be done, cheap enough to be asked every few seconds: finished jobs cost it nothing. */
export interface DepthStore {
  /** One line per declared job type, also of those that have no job. */
  depths(): Promise<TypeDepth[]>
}

export interface TypeDepth {
  type: string
  queue: string
  /** Could be claimed now, as far as their own time goes. */
  ready: number
  /** Not due yet. */
  waiting: number
  /** In the hands of a worker, also of one that is gone. */
  active: number
  /** Those among them that were reported: they wait for a person. */
  orphaned: number
}
