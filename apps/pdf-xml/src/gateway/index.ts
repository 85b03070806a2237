export { type RunGatewayOptions, runGateway } from './main.ts'
export { type Gateway, type GatewayOptions, startGateway } from './server.ts'
