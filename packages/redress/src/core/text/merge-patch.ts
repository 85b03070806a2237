/**
 * JSON Merge Patch (RFC 7396): members of the patch replace those of the target, null removes one, and anything but an
 * object replaces the whole. Neither argument is changed.
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const members = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) members.delete(name)
    else members.set(name, mergePatch(members.get(name), value))
  }
  // Defines, where an assignment would set the prototype: '__proto__' is a name like any other in JSON.
  return Object.fromEntries(members)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
