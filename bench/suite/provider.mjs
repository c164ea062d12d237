// A server with node-oidc-provider for `suite -peers`. When it is ready, it prints one
// line: its version of Node, its port, and the refresh tokens of new grants. Its
// records are in a Map: the package's own adapter for development keeps 1,000, and
// scans all tokens of a grant whenever it adds one.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { Provider } from 'oidc-provider'

const [cert, key, clientID, secret, callback, scope, grants] = process.argv.slice(1)

const day = 86400
const records = new Map()

class Memory {
  constructor(model) {
    this.key = (id) => `${model}:${id}`
  }
  async upsert(id, record) {
    records.set(this.key(id), record)
  }
  async find(id) {
    return records.get(this.key(id))
  }
  async consume(id) {
    records.get(this.key(id)).consumed = Math.floor(Date.now() / 1000)
  }
  async destroy(id) {
    records.delete(this.key(id))
  }
  async revokeByGrantId(grantId) {
    for (const [key, record] of records) if (record.grantId === grantId) records.delete(key)
  }
}

const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) })
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address()
const provider = new Provider(`https://127.0.0.1:${port}`, {
  adapter: Memory,
  clients: [{
    client_id: clientID,
    client_secret: secret,
    redirect_uris: [callback],
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: 'client_secret_post',
  }],
  scopes: ['openid', 'offline_access', ...scope.split(' ')],
  features: { introspection: { enabled: true }, devInteractions: { enabled: false } },
  ttl: { AccessToken: 3600, RefreshToken: 31 * day, Grant: 31 * day },
  rotateRefreshToken: true,
  findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
})
server.on('request', provider.callback())

const client = await provider.Client.find(clientID)
const tokens = []
for (let i = 0; i < Number(grants); i++) {
  const accountId = `user-${i}`
  const grant = new provider.Grant({ accountId, clientId: clientID })
  grant.addOIDCScope(scope)
  const grantId = await grant.save()
  tokens.push(await new provider.RefreshToken({ accountId, client, grantId, scope, gty: 'authorization_code' }).save())
}
console.log(JSON.stringify({ node: process.version, port, tokens }))
