import { registerHooks } from 'node:module'

/**
 * Comes before anything that loads the AWS SDK under vitest. Vitest hands the condition 'module' on to Node, and for it
 * the SDK's packages name a build for bundlers, which Node cannot load.
 */
registerHooks({
  resolve(specifier, context, nextResolve) {
    if (!/^@(aws|aws-sdk|smithy)\//.test(specifier)) return nextResolve(specifier, context)
    const conditions = context.conditions.filter((condition) => condition !== 'module')
    return nextResolve(specifier, { ...context, conditions })
  },
})
