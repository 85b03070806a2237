/** Job types and stages are named by their authors; the names are printed, stored and used as labels. */
const NAME = /^[a-zA-Z][\w.:-]{0,99}$/

export const isName = (name: unknown): name is string => typeof name === 'string' && NAME.test(name)
