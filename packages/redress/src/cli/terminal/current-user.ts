import { userInfo } from 'node:os'

/** Who acts, where nobody says otherwise. */
export function currentUser(): string {
  try {
    return process.env.USER || userInfo().username
  } catch {
    // A container may run as a number that has no name.
    return ''
  }
}
