// A client of the Model Context Protocol whose user sees no page of the authorization
// server: it presents an assertion as its grant (RFC 7523 section 2.1). It is told the
// address of an MCP server and, in the form of the protocol's judge of clients, what it
// has: its user's id_token of the company's identity provider (enterprise-managed
// authorization), or a token of the platform on which it runs (workload identity).
// It calls a tool in each way that the protocol's SDK has, and prints what it got.
import {
  Client, CrossAppAccessProvider, StreamableHTTPClientTransport, discoverOAuthServerInfo, exchangeJwtAuthGrant, requestJwtAuthorizationGrant,
} from '@modelcontextprotocol/client'

const address = new URL(process.argv[2])
const has = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT)
const grantType = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

async function call(options) {
  const client = new Client({ name: 'asserting client', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(address, options))
  const { tools: [tool] } = await client.listTools()
  const { content } = await client.callTool({ name: tool.name })
  await client.close()
  return content[0].text
}

// What the identity provider says for a server, to a public client of it.
async function idJAG({ authorizationServerUrl: audience, resourceUrl: resource, scope }) {
  const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
    tokenEndpoint: has.idp_token_endpoint, clientId: has.idp_client_id, idToken: has.idp_id_token, audience, resource, scope,
  })
  return jwtAuthGrant
}

// The SDK sends the scope and the resource of the MCP server with the assertion.
async function bySDK(provider) {
  const text = await call({ authProvider: provider })
  return { text, ...provider.tokens() }
}

// The judge's own client sends neither.
async function byHand() {
  const { authorizationServerMetadata: as, resourceMetadata } = await discoverOAuthServerInfo(address)
  const jwtAuthGrant = await idJAG({ authorizationServerUrl: as.issuer, resourceUrl: resourceMetadata.resource })
  const tokens = await exchangeJwtAuthGrant({ tokenEndpoint: as.token_endpoint, jwtAuthGrant, clientId: has.client_id, clientSecret: has.client_secret })
  const text = await call({ requestInit: { headers: { authorization: `Bearer ${tokens.access_token}` } } })
  return { text, ...tokens }
}

const company = () => new CrossAppAccessProvider({ clientId: has.client_id, clientSecret: has.client_secret, expectedIssuer: has.issuer, assertion: idJAG })

function platform() {
  let kept
  return {
    redirectUrl: undefined,
    clientMetadata: { redirect_uris: [], grant_types: [grantType], token_endpoint_auth_method: 'none' },
    clientInformation: () => ({ client_id: has.client_id, issuer: has.issuer }),
    prepareTokenRequest: (scope) => new URLSearchParams({ grant_type: grantType, assertion: has.valid_jwt, ...(scope && { scope }) }),
    tokens: () => kept,
    saveTokens: (tokens) => { kept = tokens },
  }
}

const got = has.valid_jwt ? [await bySDK(platform())] : [await bySDK(company()), await byHand()]
console.log('done ' + JSON.stringify(got.map(({ text, scope, refresh_token: refresh }) => ({ text, scope, refreshed: Boolean(refresh) }))))
process.exit()
