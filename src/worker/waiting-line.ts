import type { Flight } from './flight.ts'

/** Attempts that are leased and wait for a slot of this worker, in order. */
export class WaitingLine {
  #flights: Flight[] = []
  #next = 0
  /** Suspects that must wait until the one that runs has ended. */
  #suspects: Flight[] = []
  #runningSuspect: Flight | null = null

  get length(): number {
    return this.#flights.length - this.#next + this.#suspects.length
  }

  add(flight: Flight): void {
    this.#flights.push(flight)
  }

  /** The first that may begin now. */
  takeNext(): Flight | undefined {
    if (this.#runningSuspect === null && this.#suspects.length > 0) return this.#begin(this.#suspects.shift())
    while (this.#next < this.#flights.length) {
      const flight = this.#flights[this.#next++] as Flight
      if (!flight.isSuspect || this.#runningSuspect === null) return this.#begin(flight)
      this.#suspects.push(flight)
    }
    this.#flights = []
    this.#next = 0
    return undefined
  }

  #begin(flight: Flight | undefined): Flight | undefined {
    if (flight?.isSuspect) this.#runningSuspect = flight
    return flight
  }

  /** Takes those chosen out of the line. */
  take(isChosen: (flight: Flight) => boolean): Flight[] {
    const waiting = [...this.#suspects, ...this.#flights.slice(this.#next)]
    const chosen = waiting.filter(isChosen)
    if (chosen.length === 0) return chosen
    this.#flights = waiting.filter((flight) => !chosen.includes(flight))
    this.#next = 0
    this.#suspects = []
    return chosen
  }

  /** Its outcome is safe. True when that lets another one begin. */
  ended(flight: Flight): boolean {
    if (this.#runningSuspect !== flight) return false
    this.#runningSuspect = null
    return this.#suspects.length > 0
  }

  clear(): void {
    this.take(() => true)
    this.#runningSuspect = null
  }
}
