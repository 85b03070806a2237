import type { Caller } from 'redress/http'

/** Whose conversions these are: an account's, a token's, or those of a browser that we know by its cookie. */
export const ownerOf = ({ account, name }: Caller): string => account ?? name
