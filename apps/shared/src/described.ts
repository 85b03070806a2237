import type { RouteDescription } from 'redress/http'

/** The options of a route, with its description for the OpenAPI document. */
export const described = (api: RouteDescription, more: { bodyMs?: number } = {}) => ({ config: { ...more, api } })

export const HTML = 'text/html'
