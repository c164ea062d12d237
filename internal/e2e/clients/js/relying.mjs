// A web application that signs its users in by one of two libraries, which are
// given the issuer, the client's id and its secret, and nothing else. The
// arguments are library, issuer, id, secret and the application's own origin.
import { createServer } from 'node:http'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'

const [library, issuer, id, secret, origin] = process.argv.slice(2)
const redirectURI = origin + '/callback'
const home = origin + '/'

const request = (challenge, { state, nonce }) =>
  ({ redirect_uri: redirectURI, scope: 'openid profile email', state, nonce, code_challenge: challenge, code_challenge_method: 'S256' })

async function openidClient() {
  const config = await openid.discovery(new URL(issuer), id, secret)
  openid.enableNonRepudiationChecks(config) // check the signature, beside TLS
  return {
    begin: async (login) => openid.buildAuthorizationUrl(config, request(await openid.calculatePKCECodeChallenge(login.verifier), login)),
    finish: (url, { state, nonce, verifier }) => openid.authorizationCodeGrant(
      config, url, { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true }),
    refresh: (token) => openid.refreshTokenGrant(config, token),
    claims: (tokens) => tokens.claims(),
    userinfo: (token, subject) => openid.fetchUserInfo(config, token, subject),
    end: (hint) => config.serverMetadata().end_session_endpoint &&
      openid.buildEndSessionUrl(config, { id_token_hint: hint, post_logout_redirect_uri: home }),
  }
}

async function oauth4webapi() {
  const as = await oauth.processDiscoveryResponse(new URL(issuer), await oauth.discoveryRequest(new URL(issuer)))
  const client = { client_id: id }
  const auth = oauth.ClientSecretBasic(secret)
  const signed = async (response, tokens) => {
    await oauth.validateApplicationLevelSignature(as, response)
    return tokens
  }
  return {
    begin: async (login) => {
      const url = new URL(as.authorization_endpoint)
      const parameters = { client_id: id, response_type: 'code', ...request(await oauth.calculatePKCECodeChallenge(login.verifier), login) }
      for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
      return url
    },
    finish: async (url, { state, nonce, verifier }) => {
      const parameters = oauth.validateAuthResponse(as, client, url, state)
      const response = await oauth.authorizationCodeGrantRequest(as, client, auth, parameters, redirectURI, verifier)
      return signed(response, await oauth.processAuthorizationCodeResponse(as, client, response, { expectedNonce: nonce, requireIdToken: true }))
    },
    refresh: async (token) => {
      const response = await oauth.refreshTokenGrantRequest(as, client, auth, token)
      return signed(response, await oauth.processRefreshTokenResponse(as, client, response))
    },
    claims: (tokens) => oauth.getValidatedIdTokenClaims(tokens),
    userinfo: async (token, subject) =>
      oauth.processUserInfoResponse(as, client, subject, await oauth.userInfoRequest(as, client, token)),
    end: (hint) => {
      if (!as.end_session_endpoint) return undefined
      const url = new URL(as.end_session_endpoint)
      url.searchParams.set('id_token_hint', hint)
      url.searchParams.set('post_logout_redirect_uri', home)
      return url
    },
  }
}

const relying = await { 'openid-client': openidClient, oauth4webapi }[library]()
let login, tokens, user // of the only browser there is

async function signedIn(answer) {
  tokens = answer
  const claims = relying.claims(tokens)
  user = await relying.userinfo(tokens.access_token, claims.sub)
}

const pages = {
  '/': () => user
    ? `<p id="email">${user.email}</p><a id="refresh" href="/refresh">Refresh</a> <a id="logout" href="/logout">Sign out</a>`
    : '<a id="sign-in" href="/login">Sign in</a>',
  '/login': (_, redirect) => {
    login = { state: oauth.generateRandomState(), nonce: oauth.generateRandomNonce(), verifier: oauth.generateRandomCodeVerifier() }
    return relying.begin(login).then(redirect)
  },
  '/callback': async (url, redirect) => {
    await signedIn(await relying.finish(url, login))
    return redirect(home)
  },
  '/refresh': async (_, redirect) => {
    await signedIn(await relying.refresh(tokens.refresh_token))
    return redirect(home)
  },
  '/logout': (_, redirect) => {
    const next = relying.end(tokens.id_token) ?? home
    tokens = user = undefined
    return redirect(next)
  },
}

createServer(async (request, response) => {
  const redirect = (to) => void response.writeHead(303, { location: String(to) }).end()
  try {
    const url = new URL(request.url, origin)
    const text = await pages[url.pathname]?.(url, redirect)
    if (!response.writableEnded) response.writeHead(text ? 200 : 404, { 'content-type': 'text/html; charset=utf-8' }).end(text)
  } catch (error) {
    console.error(error)
    response.writeHead(500).end(`${error.code ?? error.name}: ${error.message}`)
  }
}).listen(new URL(origin).port, '127.0.0.1', () => console.log(`Open ${origin}`))
