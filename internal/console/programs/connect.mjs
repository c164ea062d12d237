import { createServer } from 'node:http';
import { createHash, randomBytes } from 'node:crypto';

const issuer = 'https://127.0.0.1:8443/oauth2/api';
const redirectURI = 'http://localhost:3000/callback';
const { CLIENT_ID, CLIENT_SECRET } = process.env;

// RFC 8414: the well-known part goes between the host and the path.
const { origin, pathname } = new URL(issuer);
const metadata = await (await fetch(`${origin}/.well-known/oauth-authorization-server${pathname}`)).json();

const random = () => randomBytes(32).toString('base64url');
const logins = new Map(); // PKCE verifiers by state; in production, in the session of the browser
let pair; // in production, with the user's record

async function requestTokens(form) {
  const response = await fetch(metadata.token_endpoint, {
    method: 'POST',
    headers: { authorization: 'Basic ' + Buffer.from(`${CLIENT_ID}:${CLIENT_SECRET}`).toString('base64') },
    body: new URLSearchParams(form),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${response.status} ${answer.error}: ${answer.error_description}`);
  return answer;
}

// Who has signed in (OpenID Connect). Know the user by sub, and show the name.
async function userOf(pair) {
  const response = await fetch(metadata.userinfo_endpoint, { headers: { authorization: `Bearer ${pair.access_token}` } });
  if (!response.ok) throw new Error(`userinfo: ${response.status}`);
  return response.json();
}

function login(request, response) {
  const state = random(), verifier = random();
  logins.set(state, verifier);
  const query = new URLSearchParams({
    response_type: 'code', client_id: CLIENT_ID, redirect_uri: redirectURI, scope: 'openid profile', state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256',
  });
  response.writeHead(303, {
    location: `${metadata.authorization_endpoint}?${query}`,
    'set-cookie': `login=${state}; HttpOnly; SameSite=Lax; Path=/callback`, // add Secure with https
  }).end();
}

async function callback(request, response) {
  const query = new URL(request.url, redirectURI).searchParams;
  const state = query.get('state'), verifier = logins.get(state);
  // The cookie proves that this browser began the login; iss that it is this server's answer (RFC 9207).
  if (!verifier || !request.headers.cookie?.includes(`login=${state}`) || query.get('iss') !== issuer) throw new Error('not a login of ours');
  logins.delete(state);
  if (query.has('error')) throw new Error(query.get('error'));
  pair = await requestTokens({ grant_type: 'authorization_code', code: query.get('code'), redirect_uri: redirectURI, code_verifier: verifier });
  const user = await userOf(pair);
  response.end(`signed in as ${user.name}`);
}

async function refresh(request, response) {
  pair = await requestTokens({ grant_type: 'refresh_token', refresh_token: pair.refresh_token });
  response.end(`refreshed for ${pair.expires_in} seconds`);
}

const pages = { '/login': login, '/callback': callback, '/refresh': refresh };
createServer(async (request, response) => {
  response.setHeader('content-type', 'text/plain; charset=utf-8'); // names are not HTML
  try {
    await pages[new URL(request.url, redirectURI).pathname]?.(request, response) ?? response.end();
  } catch (error) {
    response.writeHead(400).end(error.message);
  }
}).listen(3000, () => console.log('open http://localhost:3000/login'));
