#include "server/playground.hpp"

namespace paceline::server {

const std::string_view playground_page = R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Paceline</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fafafa}
h1{font-size:1.2rem}.turn{white-space:pre-wrap;padding:.6rem .8rem;margin:.5rem 0;border-radius:.5rem;background:#fff;border:1px solid #ddd}
.user{background:#eef4ff}form{display:flex;gap:.5rem;margin-top:1rem}textarea{flex:1;font:inherit;padding:.5rem}
small{color:#666}button{font:inherit;padding:.5rem 1rem}
</style></head><body>
<h1>Paceline</h1><div id="log"></div>
<form id="form"><textarea id="text" rows="2" placeholder="Say something" required></textarea><button>Send</button></form>
<p><label><small>API key, if the server wants one: <input id="key" type="password" autocomplete="off"></small></label></p>
<script>
const log=document.getElementById('log'),form=document.getElementById('form'),text=document.getElementById('text'),messages=[];
function add(kind,content){const e=document.createElement('div');e.className='turn '+kind;e.textContent=content;log.append(e);return e}
form.onsubmit=async event=>{
  event.preventDefault();const content=text.value;text.value='';messages.push({role:'user',content});add('user',content);
  const turn=add('assistant',''),headers={'content-type':'application/json'},key=document.getElementById('key').value;
  if(key)headers.authorization='Bearer '+key;
  try{
    const reply=await fetch('/v1/chat/completions',{method:'POST',headers,body:JSON.stringify({messages,stream:true,stream_options:{include_usage:true}})});
    if(!reply.ok)throw new Error((await reply.json()).error.message);
    const reader=reply.body.pipeThrough(new TextDecoderStream()).getReader();let rest='',answer='';
    for(;;){
      const {value,done}=await reader.read();if(done)break;
      const lines=(rest+value).split('\n');rest=lines.pop();
      for(const line of lines){
        if(!line.startsWith('data: ')||line==='data: [DONE]')continue;
        const chunk=JSON.parse(line.slice(6));
        if(chunk.error)throw new Error(chunk.error.message);
        answer+=chunk.choices?.[0]?.delta?.content??'';turn.textContent=answer;
        if(chunk.metrics){const s=chunk.metrics.speculative_decoding,n=document.createElement('small');
          n.textContent=`${chunk.usage.completion_tokens} tokens, ${chunk.metrics.tokens_per_second.toFixed(1)} a second`+
            (s?`, ${s.mean_acceptance_length.toFixed(2)} a round`:'');log.append(n)}
      }
    }
    messages.push({role:'assistant',content:answer});
  }catch(failure){turn.textContent='Error: '+failure.message}
};
</script></body></html>
)page";

} // namespace paceline::server
